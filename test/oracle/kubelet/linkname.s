// Empty: its presence lets Go declare functions without a body (see go:linkname in the adapters).
