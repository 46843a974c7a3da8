"""Returns a list that contains itself, a dictionary that does, and a very deep one."""
endless = []
endless.append(endless)
loop = {}
loop["again"] = loop
deep = []
for _ in range(10**5):
    deep = [deep]


def repeat_kv(x, n_rep):
    return {2: endless, 4: loop}.get(n_rep, deep)
