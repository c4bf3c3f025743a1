"""The HTTP face of Diptych: `diptych.http.app.create_app(collection, scorer)` is the whole service with its page."""
