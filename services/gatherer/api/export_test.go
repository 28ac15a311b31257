package api

// Rules is who may call what, and ToStatus what errors become.
var (
	Rules    = rules
	ToStatus = toStatus
)
