package api

import (
	"maps"
	"slices"
)

// RuledMethods returns the methods that have a rule.
func RuledMethods() []string { return slices.Sorted(maps.Keys(rules)) }
