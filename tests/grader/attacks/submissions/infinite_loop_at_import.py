"""Never gets to its first function."""
while True:
    pass
