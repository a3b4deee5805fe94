"""The built-in studies, one module each; a module's ``study`` function runs it."""
