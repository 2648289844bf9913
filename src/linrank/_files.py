def atomic_write(p, m):
    pass
