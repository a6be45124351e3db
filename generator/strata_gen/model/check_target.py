"""What targets can get wrong beyond a single file: names that clash or lead nowhere, defaults that no knob takes."""
