// Package udp is the socket of everything that moves in datagrams: many move with one system call.
//
// Datagrams of one size to one place go to the kernel as one run, which the kernel cuts if it can
// (UDP_SEGMENT); datagrams that it merged come back as one (UDP_GRO). If it cannot, they move in
// batches, and Socket.Offload says so.
package udp
