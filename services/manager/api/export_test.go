package api

import (
	"maps"
	"slices"
)

// Absent says which services should be here and are not.
var (
	Absent   = absent
	IsMissed = isMissed
)

// RuledMethods returns the methods that have a rule.
func RuledMethods() []string { return slices.Sorted(maps.Keys(rules)) }
