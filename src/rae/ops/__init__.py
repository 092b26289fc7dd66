"""The hot loops. One module per kind of device, the same functions in each."""
