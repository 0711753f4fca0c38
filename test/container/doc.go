// Package container tests kloop as the first process of a privileged container, as docker run --privileged has it.
package container
