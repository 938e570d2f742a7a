"""How reports and the window look: colours and elements, and the chart that both draw."""
