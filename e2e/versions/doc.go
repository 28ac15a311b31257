// Package versions runs services, members and commands of this version together with those of the version
// before: while an upgrade is under way, all of them meet.
package versions
