package grant

// Take is what the managers say.
var Take = (*List).take
