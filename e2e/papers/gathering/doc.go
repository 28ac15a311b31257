// Package gathering is what papers 001 and 003 have in common: clients that upload to a
// gatherer over one access link, with the product's own commands and library, beside
// traffic that nobody controls.
package gathering
