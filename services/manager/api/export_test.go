package api

import (
	"maps"
	"slices"
)

// Absent says who is to be here and is not.
var (
	Absent   = absent
	IsMissed = isMissed
)

// RuledMethods returns the methods that have a rule.
func RuledMethods() []string { return slices.Sorted(maps.Keys(rules)) }
