// Package device has block devices as sources and targets of replications. A target has to
// be on a list, and is refused while anything uses it, when it is too small, read-only, or
// not the one that was meant. It counts as complete when it was read back.
package device
