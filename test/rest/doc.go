// Package rest has the test of a cluster at rest: once everything that can be done is done, no loop writes, whatever objects there are and
// whoever else has written to them. Two loops that write one object in turn, and one that corrects for ever what is right, fail it.
package rest
