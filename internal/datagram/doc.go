// Package datagram moves the datagrams of streams between neighbours in a tree: sealed for
// each link (Out, In), many at once (Socket, Batch), protected by parity where the stream
// wants that (Encoder, Repair). The links' control, over which children report, is
// internal/link; the rules are internal/algo/datagram, the layout internal/wire/datagram.
//
// A session agent uses all of it, a sender Out and Encoder, a receiver In and Repair.
package datagram
