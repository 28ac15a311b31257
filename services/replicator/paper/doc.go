// Package paper sends and receives files and on-line streams by SOMA as its paper has it (004),
// over UDP multicast in one or several LANs. internal/algo/soma/paper has the rules; here are
// the sockets, the clock and the files.
//
//	            one goroutine
//	ear  ─────▶ ┌──────────┐ ─────▶ mouth       ear    hears the group
//	mouth ────▶ │ Step(now)│ ─────▶ file        mouth  speaks, and hears what is for this
//	alarm ────▶ └──────────┘                            machine alone
//
// It is insecure by nature: whoever is in the LAN can forge data, stop a transfer, and have
// a server send 47 times what a request has. Nothing proves that what came is what was
// sent. So it never runs unless it is asked for by name; the default is another profile.
//
// Between several LANs, routers have to route multicast, and the time to live (TTL) has to be
// more than the number of routers.
package paper
