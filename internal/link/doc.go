// Package link is the connection between two neighbours in a delivery's tree: how it
// is opened, and how bytes move over it, from a file into a file.
//
// Both ends prove their identities in a TLS handshake, whatever the data plane, and the dialling
// end shows its capability. On a plaintext data plane TLS ends with the welcome, and the kernel
// moves the bytes: by sendfile at one end, by splice at the other. They enter the process's memory
// at neither. With TLS they pass through one buffer of a connection.
//
// Why it is so: docs/decisions.md#links-and-caches.
//
// Contacts keeps connections to peers that have proven who they are, for links that are opened later.
//
// Feeding is the parent's side of a link, Taking the child's. A session agent uses both, a
// sender Feeding and a receiver Taking.
package link
