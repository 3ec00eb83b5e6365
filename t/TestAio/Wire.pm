package TestAio::Wire;

=head1 NAME

TestAio::Wire - a connection that speaks the frontend/backend protocol

=head1 SYNOPSIS

	my $wire = TestAio::Wire->new($aio->node->host, $aio->node->port, user => scalar getpwuid $>, database => 'postgres');
	$wire->receive(1) until $wire->is_idle;
	$wire->send_sql('SELECT 1; SELECT 2');
	$wire->receive(1) until $wire->is_idle;
	is(join(' ', $wire->rows), '1 2', 'rows');
	$wire->close;

psql takes more time to start than most tests take.  There is what tests need: no password, no encryption, simple
queries, rows as text.  The statements of one text are sent one by one; each is a transaction of its own.

=cut

use v5.36;
use warnings FATAL => 'all';

use IO::Socket::INET;
use IO::Socket::UNIX;

# fields of a message from the server, in the order of a verbose report
my @report = (
	[ D => 'DETAIL' ], [ H => 'HINT' ], [ q => 'QUERY' ], [ W => 'CONTEXT' ],
	[ s => 'SCHEMA NAME' ], [ t => 'TABLE NAME' ], [ c => 'COLUMN NAME' ],
	[ d => 'DATATYPE NAME' ], [ n => 'CONSTRAINT NAME' ]);

# Parameters: host (a directory, or an address), port, and the parameters of the startup message.
# Does not wait for the server; receive() takes its answers.
sub new ($class, $host, $port, %startup)
{
	local $SIG{PIPE} = 'IGNORE';
	my $socket = $host =~ m{^/}
	  ? IO::Socket::UNIX->new(Peer => "$host/.s.PGSQL.$port")
	  : IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port);
	my $self = bless {
		socket => $socket, buffer => '', lost => $socket ? undef : "could not connect to port $port of $host: $!",
		pid => undef, unfinished => 1, rows => [], messages => [],
	}, $class;
	my $parameters = join '', map { "$_\0" } %startup, '';
	$self->_write(pack('N2', 8 + length $parameters, 196608) . $parameters);
	return $self;
}

# Process id of the backend, once the server has sent it.
sub pid { return $_[0]->{pid} }

# Why the connection was lost, or undef.
sub lost { return $_[0]->{lost} }

# Returns true if all statements have been answered.
sub is_idle { return $_[0]->{lost} || !$_[0]->{unfinished} }

sub _write ($self, $bytes)
{
	return if $self->{lost};
	local $SIG{PIPE} = 'IGNORE';
	# after a failure, the server's last messages are still to be read
	$self->{socket}->syswrite($bytes);
	return;
}

# Splits a text at the semicolons that end statements.
sub statements ($text)
{
	my @statements = ('');
	while ($text =~ /\G( '(?:[^']|'')*' | "[^"]*" | (\$\w*\$) .*? \2 | --[^\n]* | ; | [^;'"\$-]+ | . )/xsg)
	{
		if ($1 eq ';') { push @statements, '' }
		else { $statements[-1] .= $1 }
	}
	return grep { /\S/ } @statements;
}

# Sends statements.  All earlier ones must have been answered.
sub send_sql ($self, $text)
{
	my @statements = statements($text);
	($self->{rows}, $self->{messages}) = ([], []);
	$self->{unfinished} = @statements;
	$self->_write(join '', map { pack 'A N a* x', 'Q', 5 + length $_, $_ } @statements);
	return;
}

# What has come of the statements: rows, columns separated by "|"; messages as
# hashes: severity, sqlstate, message, detail, hint, context; "all" is the whole text.
sub rows { return @{ $_[0]->{rows} } }
sub messages { return @{ $_[0]->{messages} } }

# Takes what the server has sent, waiting at most so many seconds for the first of it.
sub receive ($self, $wait)
{
	return if $self->{lost};
	vec(my $readable = '', fileno $self->{socket}, 1) = 1;
	return if select($readable, undef, undef, $wait) <= 0;
	my $n = sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
	$self->{lost} = 'the server closed the connection' if !$n;
	while (length $self->{buffer} >= 5)
	{
		my ($type, $length) = unpack 'A N', $self->{buffer};
		last if length $self->{buffer} < 1 + $length;
		my $body = substr $self->{buffer}, 5, $length - 4;
		substr($self->{buffer}, 0, 1 + $length) = '';
		$self->_take($type, $body);
	}
	return;
}

sub in_transaction { return $_[0]->{in_transaction} }

sub _take ($self, $type, $body)
{
	if ($type eq 'D')
	{
		my ($count, $at, @columns) = (unpack('n', $body), 2);
		for (1 .. $count)
		{
			my $length = unpack 'N', substr $body, $at, 4;
			$at += 4;
			# null
			if ($length == 0xFFFFFFFF) { push @columns, ''; next }
			push @columns, substr $body, $at, $length;
			$at += $length;
		}
		push @{ $self->{rows} }, join '|', @columns;
	}
	elsif ($type eq 'Z') { $self->{unfinished}--; $self->{in_transaction} = $body ne 'I' }
	elsif ($type eq 'E' || $type eq 'N') { push @{ $self->{messages} }, _message($body) }
	elsif ($type eq 'K') { $self->{pid} = unpack 'N', $body }
	elsif ($type eq 'R') { die "the server wants a password\n" if unpack 'N', $body }
	elsif ($type eq 'G') { $self->_write(pack 'A N a* x', 'f', 5 + length 'no data', 'no data') }
	# all else: completion tags, settings, row descriptions, COPY's output
	return;
}

sub _message ($body)
{
	my %field = map { /^(.)(.*)/s ? ($1 => $2) : () } split /\0/, $body;
	my $all = "$field{V}:  $field{C}: $field{M}";
	for my $part (@report)
	{
		my ($key, $label) = @$part;
		$all .= "\n$label:  $field{$key}" if defined $field{$key};
	}
	$all .= "\nLOCATION:  $field{R}, $field{F}:$field{L}" if defined $field{R};
	return {
		severity => $field{V}, sqlstate => $field{C}, message => $field{M}, detail => $field{D},
		hint => $field{H}, context => $field{W}, all => $all };
}

sub close ($self)
{
	$self->_write(pack 'A N', 'X', 4);
	$self->{socket}->close if $self->{socket};
	$self->{socket} = undef;
	$self->{lost} //= 'closed';
	return;
}

1;
