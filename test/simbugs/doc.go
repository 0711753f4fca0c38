// Package simbugs rebuilds published bugs of real operators, each as a small operator of our own, to show that simtest finds them.
// The bugs are those that the authors of Sieve (OSDI 2022) reported; each operator names the issue.
package simbugs
