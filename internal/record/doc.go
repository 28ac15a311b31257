// Package record is how one replication went, as its sender writes it into a file: a line of JSON that says what was replicated, and
// one for each tenth of a second or so with what was sent until then.
//
//	{"record":"groupcast replication","version":1,"name":"disk.img","length":…,"profile":"fast","datagram":1472,…}
//	{"seconds":0.000071,"window":32,"bytes":0,"packets":0,…}
//	{"seconds":0.100318,"window":214,"bytes":1191848,"packets":811,…}
//
// Lines are written whole, as it goes on. Readers pass over what they do not know: later versions may have more.
package record
