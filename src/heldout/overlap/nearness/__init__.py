"""Calibration: when is a picture nearer to a corpus than chance allows?"""
