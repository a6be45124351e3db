"""Stage 2a: pydantic models at the YAML edge. One pass reports every error; nothing past here sees YAML or pydantic."""
