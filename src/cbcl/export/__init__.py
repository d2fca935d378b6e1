"""An app without a server: a static folder that recognizes in the browser."""
