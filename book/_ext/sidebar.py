"""The sidebar lists chapters and pages; those under a page show where the reader is among them."""


def show_rooms_alone(app, config):
    """Leave pages under others out of the sidebar, but for those around the reader."""
    config.html_theme_options["collapse_navbar"] = True


def setup(app):
    """Connect it."""
    app.connect("config-inited", show_rooms_alone)
