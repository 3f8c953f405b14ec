"""Figures and health of a server: what it counts, said over HTTP when somebody asks.

    monitoring = Monitoring(ExporterSettings(kind=ExporterKind.PROM, port=5557, host="127.0.0.1"))
    part = monitoring.part("controller", {"address": "127.0.0.1:9878"})
    part.add(FAMILIES, collect)                    # collect() yields points when it is asked
    part.check("store", lambda: None)              # None, or in a few words what is wrong
    async with monitoring.serving(turns):
        print(monitoring.url)                      # http://127.0.0.1:5557/metrics

Nothing is done for it while nobody asks: those who count keep plain integers anyway, and a
collector turns them into points at the moment of a question, some milliseconds at a time.
"""
