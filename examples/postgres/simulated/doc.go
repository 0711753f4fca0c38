// Package simulated runs the operator and the real instance managers over a PostgreSQL that is a list in memory, under every
// fault of package simtest, in simulated time.
package simulated
