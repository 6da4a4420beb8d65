"""Reports as JSON, Markdown and pages."""
