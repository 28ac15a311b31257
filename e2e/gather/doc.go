// Package gather tests the gatherer from end to end: a manager, a gatherer and its clients as real
// programs over loopback, which are killed, stopped, crowded and lied to; and over links of the
// network lab that change, where the question is which client gets what.
package gather
