// Package gather tests the gatherer from end to end: a manager, a gatherer and its clients as
// real programs over loopback, which are killed, stopped, crowded and lied to.
package gather
