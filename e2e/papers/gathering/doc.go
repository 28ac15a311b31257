// Package gathering is what papers 001 and 003 have in common: clients upload to a gatherer over
// one access link, with the product's own commands and library, next to traffic that nobody
// controls.
package gathering
