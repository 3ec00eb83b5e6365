package TestAio::Preloaded;

=head1 NAME

TestAio::Preloaded - has prove fork its tests, and load beforehand what all of them load

=head1 SYNOPSIS

	export PERL5LIB=t:$(dirname $(pg_config --pgxs))/../../src/test/perl
	export PG_REGRESS=$(dirname $(pg_config --pgxs))/../../src/test/regress/pg_regress
	perl -MTestAio::Preloaded -S prove t/server/reads/errors.pl

This saves 70 ms of each test's CPU time.

=cut

use v5.36;
use warnings FATAL => 'all';

use B ();
use FindBin ();
use TAP::Parser::Iterator::Process ();
use TAP::Parser::IteratorFactory ();
use Test2::API ();
use parent 'TAP::Parser::SourceHandler';

# all but TestAio, which looks at the test's name
use TestAio::Kernel;
use TestAio::Server;

# INIT blocks look at the test's name, too: they wait for it
my @init;
BEGIN { @init = splice B::init_av()->object_2svref->@* }

# what each test would ask
TestAio::Server::version();
TestAio::Server::io_methods();

TAP::Parser::IteratorFactory->register_handler(__PACKAGE__);

# more than prove's own handlers say of a file in Perl
sub can_handle ($class, $source) { return $source->meta->{is_file} && $source->meta->{file}{lc_ext} eq '.pl' ? 1 : 0 }

# Runs a test.  Does not return.
sub _run ($file)
{
	$0 = $file;
	@ARGV = ();
	FindBin::again();
	Test2::API::test2_post_preload_reset();
	Test2::API::test2_stack()->clear;
	Test::Builder->new->reset;
	# names the test's log
	require TestAio;
	$_->() for @init;
	my $error = -r $file ? '' : "cannot read $file: $!\n";
	do($file =~ m{^/} ? $file : "./$file") if !$error;
	# prove would catch an error
	print {*STDERR} $error ||= $@;
	exit($error ? 255 : 0);
}

sub make_iterator ($class, $source)
{
	# "-" forks
	my $iterator = TAP::Parser::Iterator::Process->new({ command => ['-'], merge => $source->merge });
	_run(${ $source->raw }) if !$iterator->{pid};
	return $iterator;
}

1;
