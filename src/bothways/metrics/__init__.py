"""Named scores over established libraries."""
