def check(fleet, session):
    pass
