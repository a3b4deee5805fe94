"""The processor backend of the registry: every call returns when its work is done."""
