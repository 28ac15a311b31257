// Package capture reads and writes captures of network traffic, and takes them from a
// network interface: the datagrams of UDP over IPv4 in files as tcpdump writes them (pcap)
// and as Wireshark does (pcapng).
//
//	file ──▶ Reader ──▶ Packet ──▶ Packet.Datagram        Live ──▶ Packet
//
// A packet that was cut short, a fragment, and anything that is not UDP over IPv4 is not a Datagram.
package capture
