package revocation

// What the managers say.
var (
	Take = (*List).take
	Hear = (*List).hear
)
