// Package lab is a network on one machine: real processes and the real
// kernel's TCP and UDP between emulated links.
//
// A topology is declared in Go and reads like a figure: hosts, routers and
// LANs, and the links between them. Start builds it; addresses and routes are
// worked out. Close removes it.
//
//	sender ──link──▶ router ──link──▶ LAN ──▶ receivers
//
//	Host, Router   a network namespace; a router forwards
//	LAN            a bridge in a namespace of its own; multicast floods
//	Link           shaped: a TUN or TAP device at each end, joined in this
//	               process by package link; plain: a virtual cable (veth)
//
// Nothing has a name in the file system. The namespaces are anonymous and held
// by threads and descriptors of this process, TUN and TAP devices die with their
// descriptors, and programs get a parent-death signal; so the kernel removes all
// of it on return, panic, SIGINT and SIGKILL alike, and labs that run at the same
// time cannot meet. The one thing that can outlive a crash is what a program
// itself started and left behind; it carries its owner in its environment, and
// the next Start ends it.
package lab
