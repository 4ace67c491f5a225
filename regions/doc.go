// Package regions implements the rules that make keys of a Bloom filter deletable, and the
// probability that a delete works. The filter is a plain bitmap beside a second one.
//
// The Bloom bits are grouped into regions of consecutive bits. The collision bitmap has one bit for
// each region. An insert that finds one of its bits already set also sets the collision bit of that
// region. Provided that each key is inserted once before it is deleted, and that no collision bit
// is ever cleared:
//
//   - A bit in a region whose collision bit is set may belong to several keys. A delete must not
//     clear it.
//   - A set bit in a region whose collision bit is clear belongs to at most one live key. The
//     delete of that key may clear it.
//
// A key that has lost one bit is no longer reported, until a later insert sets that bit again. A
// key without any bit to clear is stuck. Smaller regions leave fewer keys stuck, and take more
// memory: [Geometry.Deletable] computes how many.
//
// Rothenberg, Macapuna, Verdi and Magalhães described the scheme in "The Deletable Bloom filter"
// (2010). FAV filters use it on bitmaps in Redis, and the bits have the order of Redis.
//
//   - [Size] finds the region of a bit, and the length of a collision bitmap.
//   - [Bitmap] is either of the two bitmaps, and [Offset] the place of a bit in a Redis string.
//   - [Pair] has both bitmaps, and the rules of insert and delete.
//   - [Geometry] computes the share of keys that a delete can remove.
//
// The package does no I/O and keeps no state. It checks no arguments: a bit past the end of a
// bitmap panics as an index out of range does. Package favfilter checks what it reads from a store.
package regions
