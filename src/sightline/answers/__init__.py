"""What every kind of answer says, outlined once: headline, tables, bars, charts, sentences and next steps."""
