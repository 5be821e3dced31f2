%% The log: one line per event, on standard error.
%%
%% A formatter and a filter for OTP's logger. The reports of OTP are many lines each and some say the same thing
%% three times; here each crash is one line of the process and one of its supervisor.
-module(vsns_log).

-export([install/0, format/2, wanted/2]).

-define(LONGEST, 400).

%% @doc Replaces the default handler.
-spec install() -> ok.
install() ->
    _ = logger:remove_handler(default),
    ok = logger:add_handler(default, logger_std_h, #{
        config => #{type => standard_error},
        formatter => {?MODULE, #{}},
        filter_default => log,
        filters => [{once, {fun ?MODULE:wanted/2, []}}]
    }).

%% @doc Drops crash reports: the same crash is reported by the gen_server and by the supervisor.
-spec wanted(logger:log_event(), term()) -> logger:filter_return().
wanted(#{msg := {report, #{label := {proc_lib, crash}}}}, _) -> stop;
wanted(_, _) -> ignore.

%% @doc Time, level, text, one line.
-spec format(logger:log_event(), logger:formatter_config()) -> unicode:chardata().
format(#{level := Level, msg := Message, meta := Meta}, _Config) ->
    Time = calendar:system_time_to_rfc3339(maps:get(time, Meta), [{unit, microsecond}, {offset, "Z"}]),
    [Time, " ", atom_to_list(Level), " ", one_line(text(Message, Meta)), "\n"].

-spec text(term(), logger:metadata()) -> unicode:chardata().
text({report, #{label := {gen_server, terminate}, name := Name, reason := Reason}}, _) ->
    io_lib:format("~ts down: ~ts", [who(Name), why(Reason)]);
text({report, #{label := {supervisor, Error}, report := Report}}, _) ->
    supervisor(Error, maps:from_list(Report));
text({report, #{label := {application_controller, exit}, report := Report}}, _) ->
    io_lib:format("application ~0tp ended: ~ts",
                  [proplists:get_value(application, Report), why(proplists:get_value(exited, Report))]);
text({report, Report}, #{report_cb := Callback}) when is_function(Callback, 1) ->
    {Format, Arguments} = Callback(Report),
    io_lib:format(Format, Arguments);
text({report, Report}, #{report_cb := Callback}) when is_function(Callback, 2) ->
    Callback(Report, #{depth => 20, chars_limit => ?LONGEST, single_line => true});
text({report, Report}, _) ->
    io_lib:format("~0tp", [Report], [{chars_limit, ?LONGEST}]);
text({string, Text}, _) ->
    Text;
text({Format, Arguments}, _) ->
    io_lib:format(Format, Arguments).

-spec who(term()) -> unicode:chardata().
who(vsns_name_server) -> "name server";
%% It takes its name when it serves. Its report is written by itself.
who(Pid) when Pid =:= self() ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> who(Name);
        [] -> pid_to_list(Pid)
    end;
who(Name) -> io_lib:format("~0tp", [Name]).

-spec supervisor(atom(), #{atom() => term()}) -> unicode:chardata().
supervisor(Error, #{supervisor := Supervisor, reason := Reason, offender := Offender}) ->
    Child = proplists:get_value(id, Offender, proplists:get_value(mod, Offender)),
    Then = case Error of
        child_terminated -> "restarting it";
        shutdown -> "giving up";
        start_error -> "could not start it";
        _ -> atom_to_list(Error)
    end,
    io_lib:format("supervisor ~ts: ~0tp ended: ~ts; ~ts", [called(Supervisor), Child, why(Reason), Then]).

-spec called(term()) -> unicode:chardata().
called({local, Name}) -> atom_to_list(Name);
called({_, Module}) when is_atom(Module) -> atom_to_list(Module);
called(Other) -> io_lib:format("~0tp", [Other]).

%% Of a stack trace the place is enough.
-spec why(term()) -> unicode:chardata().
why({Reason, [{Module, Function, Arity, Place} | _]}) when is_atom(Module), is_integer(Arity), is_list(Place) ->
    [why(Reason), io_lib:format(" (~0tp:~0tp/~b, line ~0tp)", [Module, Function, Arity, proplists:get_value(line, Place)])];
why(Reason) -> io_lib:format("~0tp", [Reason], [{chars_limit, ?LONGEST}]).

-spec one_line(unicode:chardata()) -> unicode:chardata().
one_line(Text) ->
    lists:join(" ", string:lexemes(Text, "\r\n ")).
