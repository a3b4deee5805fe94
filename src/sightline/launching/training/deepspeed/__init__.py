"""DeepSpeed: ``ds_config.json``, and the script that trains with it."""
