// Package versions runs services, members and commands of this version together with those of the version
// before: during an upgrade all combinations occur.
package versions
