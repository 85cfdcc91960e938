"""The vendor's public reference scripts, unchanged, on the TensorFlow of today: which of them reach their input?"""
