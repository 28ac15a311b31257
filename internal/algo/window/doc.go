// Package window decides how many bytes each connection of a gathering server may have under
// way, by its advertised window, and of how many connections a client's upload is made: so
// each client gets its target, by priority, from the receiver's side alone (papers 003
// and 001).
//
// A Controller is told what was seen, every half second, and says what to set:
//
//	observe ─▶ Facts ─▶ Controller.Step ─▶ Decision ─▶ apply
//
// Decisions are in the order of the facts: Decision.Shares[i] is of Facts.Clients[i], and its
// Windows[j] of Connections[j].
package window
