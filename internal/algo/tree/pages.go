package tree

// A tree is a value, and one change touches little of it. So versions of a tree share what is
// alike: a list is kept in pages, and the first change in an edition to a page copies it.
// A page of an earlier edition belongs to other trees as well, and does not change.

const pageSize = 16

type page[T any] struct {
	edition uint64
	on      [pageSize]T
}

// pages hold a list.
type pages[T any] struct {
	all    []*page[T]
	length int
}

// at returns an element, to be read only.
func (p *pages[T]) at(i int) *T { return &p.all[i/pageSize].on[i%pageSize] }

// change returns an element, to be changed in an edition.
func (p *pages[T]) change(edition uint64, i int) *T {
	of := p.all[i/pageSize]
	if of.edition != edition {
		copied := *of
		copied.edition, of = edition, &copied
		p.all[i/pageSize] = of
	}
	return &of.on[i%pageSize]
}

// add appends an element and returns its number.
func (p *pages[T]) add(edition uint64, element T) int {
	at := p.length
	if p.length++; at/pageSize == len(p.all) {
		p.all = append(p.all, &page[T]{edition: edition})
	}
	*p.change(edition, at) = element
	return at
}

// shelfSize is the largest average number of names on a shelf of a directory.
const shelfSize = 64

type shelf struct {
	edition uint64
	numbers map[string]int
}

// directory gives names numbers. Editions share its shelves.
type directory struct {
	shelves []*shelf
	count   int
}

// newDirectory returns an empty directory for about so many names.
func newDirectory(edition uint64, names int) directory {
	d := directory{shelves: make([]*shelf, 1+2*names/shelfSize)}
	for i := range d.shelves {
		d.shelves[i] = &shelf{edition, map[string]int{}}
	}
	return d
}

func (d *directory) find(name string) (number int, known bool) {
	number, known = d.shelves[d.shelfOf(name)].numbers[name]
	return number, known
}

// shelfOf returns the shelf of a name, by its FNV-1a hash.
func (d *directory) shelfOf(name string) int {
	sum := uint32(2166136261)
	for i := range len(name) {
		sum = (sum ^ uint32(name[i])) * 16777619
	}
	return int(sum % uint32(len(d.shelves)))
}

func (d *directory) put(edition uint64, name string, number int) {
	if d.count++; d.count > shelfSize*len(d.shelves) {
		d.spread(edition)
	}
	d.change(edition, name)[name] = number
}

func (d *directory) remove(edition uint64, name string) {
	d.count--
	delete(d.change(edition, name), name)
}

// change returns the shelf of a name, to be changed in an edition.
func (d *directory) change(edition uint64, name string) map[string]int {
	at := d.shelfOf(name)
	if of := d.shelves[at]; of.edition != edition {
		copied := make(map[string]int, len(of.numbers)+1)
		for name, number := range of.numbers {
			copied[name] = number
		}
		d.shelves[at] = &shelf{edition, copied}
	}
	return d.shelves[at].numbers
}

// spread makes more shelves.
func (d *directory) spread(edition uint64) {
	wider := newDirectory(edition, 2*d.count)
	for _, of := range d.shelves {
		for name, number := range of.numbers {
			wider.change(edition, name)[name] = number
		}
	}
	d.shelves = wider.shelves
}
