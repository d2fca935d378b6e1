"""From records of runs to tables, figures and one page, beside the paper's numbers."""
