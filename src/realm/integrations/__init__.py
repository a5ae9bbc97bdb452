"""REALM beside other tools."""
