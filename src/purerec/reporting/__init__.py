"""Results -> Markdown, HTML with plots."""
