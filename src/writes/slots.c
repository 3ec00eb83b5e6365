/*
 * The slots through which the server's executable calls the C library.
 *
 * The relocations of the executable's dynamic section say where the slots are.  They are
 * constant in packages that are linked with -z now, so their memory is made writable
 * for a moment, in the postmaster before it has any children.
 */
#include "writes/writes.h"

#ifdef WRITES_CAN_BE_REACHED

#include <dlfcn.h>
#include <link.h>

#ifdef __x86_64__
#define IS_SLOT(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#else
#define IS_SLOT(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

/* Returns the value of the dynamic section's entry with this tag, or 0. */
static uintptr_t
dynamic_value(const struct link_map *map, int64 tag)
{
	for (const Elf64_Dyn * entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == tag)
			return entry->d_un.d_val;
	return 0;
}

/* Returns the address there; glibc has added the base, unless the section is constant. */
static const void *
dynamic_address(const struct link_map *map, int64 tag)
{
	uintptr_t	address = dynamic_value(map, tag);

	return (const void *) (address < map->l_addr ? map->l_addr + address : address);
}

/*
 * Has the server's executable call a function in the place of one of the C library, whose
 * name may have the suffix of large files.  Returns why not, or NULL.
 */
const char *
slot_replace(const char *name, void *function)
{
	static const int64 tables[][2] = {{DT_JMPREL, DT_PLTRELSZ}, {DT_RELA, DT_RELASZ}};
	size_t		length = strlen(name);
	struct link_map *map;
	Dl_info		info;
	const		Elf64_Sym *symbols;
	const char *names;
	bool		found = false;

	if (dladdr1(&pgaio_ctl, &info, (void **) &map, RTLD_DL_LINKMAP) == 0)
		return "the server's executable is not known to the dynamic linker";
	symbols = dynamic_address(map, DT_SYMTAB);
	names = dynamic_address(map, DT_STRTAB);

	for (int i = 0; i < 2; i++)
	{
		const		Elf64_Rela *slot = dynamic_address(map, tables[i][0]);
		const		Elf64_Rela *end = slot + dynamic_value(map, tables[i][1]) / sizeof(*slot);

		for (; slot < end; slot++)
		{
			const char *name_there = names + symbols[ELF64_R_SYM(slot->r_info)].st_name;
			const char *reason;

			if (!IS_SLOT(ELF64_R_TYPE(slot->r_info)) || strncmp(name_there, name, length) != 0 ||
				(name_there[length] != '\0' && strcmp(name_there + length, "64") != 0))
				continue;
			reason = io_replace_pointer((void *) (map->l_addr + slot->r_offset), function);
			if (reason != NULL)
				return reason;
			found = true;
		}
	}

	return found ? NULL : psprintf("the server's executable has no slot for %s()", name);
}

#endif							/* WRITES_CAN_BE_REACHED */
