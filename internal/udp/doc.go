// Package udp has the socket of all that moves in datagrams: many move with one system call.
//
// Datagrams of one size to one place go to the kernel as one run, which it cuts where it can
// (UDP_SEGMENT), and what it merged comes back as one (UDP_GRO). Where it cannot, they move in
// batches, and Socket.Offload says so.
package udp
