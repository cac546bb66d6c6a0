"""The known disagreements of nbcompile with its oracle; the aim is an empty table.

Each entry is a strict expected failure: when the disagreement goes away, the
test fails until the entry is deleted.

    ("program", "aspect"): "what differs, and why"

In torch: nothing. Read next: tests/peer/test_programs.py
"""

import sys

from nbcompile.support import versions


def _known(name: str, aspects: str, reason: str) -> dict[tuple[str, str], str]:
    """One reason for several aspects of one program."""
    return {(name, aspect): reason for aspect in aspects.split()}


KNOWN: dict[tuple[str, str], str] = {
    **{
        (name, "reasons"): "both reject a view of a strided nested tensor; torch names the step that met it first"
        for name in ("jagged_sdpa", "jagged_sdpa_contiguous")
    },
    **_known(
        "iterators_are_returned",
        "graphs details reasons",
        "torch skips the frame for an iterator of the library; here it is made again, and what is beside it compiled",
    ),
    **{
        at: "torch breaks at functions of heapq and bisect, which are in C; here their Python twins are traced"
        for at in (("heap_bisect", "reasons"), ("heaps_and_bisection", "details"), ("heaps_and_bisection", "reasons"))
    },
    **{
        (
            program,
            aspect,
        ): "torch specialises a size whose text is taken, and has a graph for each; the text is made later"
        for program in ("text_of_a_dynamic_size", "text_of_a_size")
        for aspect in ("graphs", "details", "reasons")
    },
    ("overriding_wrapper_linear", "reasons"): "torch names the check of a wrapper's context by a number of its own",
    ("comptime_breaks_the_graph", "reasons"): "torch has a kind of break of its own for comptime",
    **_known(
        "warnings_are_filtered", "graphs details reasons", "torch breaks where filters are set; here it is traced"
    ),
    **{
        (
            name,
            "reasons",
        ): "torch breaks where filters are set, here the warning does; nothing resumes under the manager"
        for name in ("warning_inside_of_its_filter", "operator_warns_inside_of_a_filter")
    },
    **{
        (name, aspect): "versions are read by an operator of torch's own compiler, which is not imported here"
        for name in ("version_of_an_input_is_preserved", "version_of_a_saved_tensor_is_preserved")
        for aspect in ("graphs", "details")
    },
    ("break_while_a_version_is_preserved", "reasons"): "no graph ends under the manager, in either one's words",
    **{
        (name, "reasons"): "torch breaks where an SDPAParams is made of them; here it is traced"
        for name in ("attention_params_are_returned", "attention_params_over_a_break")
    },
    **_known(
        "attention_params_from_outside", "graphs details", "torch makes them again in the graph; here they are read"
    ),
    **{
        (
            name,
            "details",
        ): "results that are one tensor, as x.contiguous() and x may be, are one output of the graph here"
        for name in ("in_place_methods_in_a_chain", "copies_of_a_tensor", "conversions")
    },
    **_known(
        "maximum_of_tensors_by_python",
        "graphs details",
        "torch.maximum, which torch puts in, has other results for NaN, zeros and ties; here it is a comparison and a choice",
    ),
    ("generic_namedtuple", "reasons"): "torch breaks where a subscripted class is made; here it is traced",
    ("namedtuple_subclass_attribute_set_inside", "details"): "results of a graph in the order of the tuple's own items",
    **_known("entries_of_a_class_dict", "graphs details reasons", "torch breaks at an entry that is not there"),
    **_known(
        "entry_of_a_class_dict_changes",
        "details reasons",
        "an entry that differed is a number among the inputs, as an attribute is; torch puts it behind the tensor",
    ),
    **_known(
        "namedtuple_attribute_is_deleted",
        "graphs details reasons",
        "torch breaks at the deletion of an attribute of a named tuple",
    ),
    **_known(
        "a_gradient_that_is_not_materialised_is_missing",
        "graphs details reasons",
        "torch takes zeros for a missing gradient, which is not None, and returns another result; here it breaks",
    ),
    **_known(
        "grad_mode_is_set_in_c_to_a_number",
        "graphs details reasons",
        "torch breaks at an argument that is no bool; here its TypeError is traced",
    ),
    **_known("tensors_as_of_symbolic_bools", "graphs details reasons", "torch fails at as_tensor of a symbolic bool"),
    (
        "disabled_module_inside",
        "reasons",
    ): "a disabled module breaks in both; torch's reason names the function that its forward is",
    ("dtype_is_an_argument", "reasons"): "torch guards which object a dtype is; here what it equals",
    **_known(
        "function_recorded_by_torch_jit",
        "graphs details reasons",
        "torch traces the function again, which may ask what its record answers for good; the record itself runs here",
    ),
    (
        "loss_is_made_inside",
        "details",
    ): "torch calls F.cross_entropy by position in place of the module, here its forward does",
    **{
        (
            name,
            "details",
        ): "torch hands the values of all inlined frames over in one list, after which it names the input"
        for name in (
            "nested_breaks_the_new_way",
            "nested_break_in_a_property_and_in_getitem",
            "nested_break_under_a_context_of_the_callee",
            "nested_break_under_contexts_of_both",
        )
    },
    (
        "a_module_is_converted_inside",
        "reasons",
    ): "torch takes a parameter and its new value for different kinds of tensors, and replaces it; here as in eager",
    (
        "thread_local_with_its_own_setattr",
        "details",
    ): "torch reads what was given to a __setattr__ of a thread's local, not what that stored",
    **{
        (
            name,
            "details",
        ): "torch computes with a drawn number as a tensor of its own dtype, made an input first; here it is a number"
        for name in (
            "draws_of_the_module",
            "draws_by_keyword",
            "generator_made_inside",
            "generator_from_outside",
            "generator_is_seeded",
            "state_is_put_back",
            "seed_of_the_module_breaks",
            "draws_around_a_break",
            "drawn_number_decides",
            "drawn_number_is_formatted",
            "drawn_number_is_not_used",
            "draw_with_arguments",
        )
    },
    **_known(
        "drawn_number_is_a_size", "graphs details reasons", "torch breaks at the size and compiles each anew; here one"
    ),
    **_known(
        "parts_of_a_state", "graphs details", "torch takes the words of a state for constants, with a wrong result"
    ),
    **_known(
        "a_word_of_a_state_is_computed_with",
        "graphs details",
        "torch takes the words of a state for constants, with a wrong result",
    ),
    **_known(
        "delattr_is_traced_once", "graphs details reasons", "torch breaks at object.__delattr__, which is traced here"
    ),
    **_known("hook_of_a_result_is_removed", "graphs details reasons", "torch fails at handle.remove()"),
    **_known(
        "large_integers",
        "graphs details reasons",
        "an int that leaves no room for a sum in int64 is a constant here; torch's graphs compute modulo 2**64",
    ),
    # -- symbols --------------------------------------------------------------------------
    (
        "dynamic_sizes_are_returned",
        "details",
    ): "torch reads x.shape once more after the graph; here its items come out of it",
    ("ft_cmp_to_key", "reasons"): "torch breaks at functools.cmp_to_key, which is in C; here it is traced",
    ("strided_views", "reasons"): "torch breaks at storage_offset(), which is traced here",
    **_known("storage_offsets", "graphs details reasons", "torch breaks at storage_offset(), which is traced here"),
    ("numbers_nested_in_containers", "details"): "torch makes inputs of numbers later than of tensors",
    (
        "an_assertion_about_an_item",
        "reasons",
    ): "an assertion that does not hold is the exception that it raises here; torch has a kind of break of its own",
    # -- __torch_function__ --------------------------------------------------------------
    ("truth_of_numbers_in_c", "reasons"): "torch breaks at the truth of a decimal number; here it is answered",
    **_known(
        "branch_on_a_number_in_c", "graphs details reasons", "torch skips the frame at the truth of a decimal number"
    ),
    **_known(
        "equality_of_a_text_of_data",
        "graphs details reasons",
        "torch breaks where the text is made, and computes in two graphs; here at its comparison, after one graph",
    ),
    ("plain_subclass_argument", "reasons"): "torch guards the class of a subclass apart; here the tensor's guard does",
    **_known(
        "subclass_with_torch_function",
        "graphs details",
        "the result of an override is of the class here, as in eager; torch makes it a plain tensor",
    ),
    **_known(
        "subclass_made_inside",
        "graphs details reasons",
        "torch does not trace as_subclass of a class that is not an argument's",
    ),
    **_known(
        "the_environment_decides",
        "graphs details reasons",
        "torch does not guard what it read in os.environ, and gives a wrong result; here it compiles again",
    ),
    **_known("a_copied_object_with_slots", "graphs details reasons", "torch copies no slots, and skips the frame"),
    **dict.fromkeys(
        [("mutation_seen_through_an_alias", each) for each in ("graphs", "details", "reasons")],
        "two list arguments that are one list compile again here; torch does not guard it and gives a wrong result",
    ),
    **dict.fromkeys(
        [("constants_of_each_type_change", each) for each in ("graphs", "reasons")],
        "torch guards each item of a tuple whose truth is asked; here its length alone, so that it compiles less often",
    ),
    **dict.fromkeys(
        [("class_attribute_changes", each) for each in ("details", "reasons")],
        "torch addresses a class attribute through the dict of the class that holds it; here as type(child).k",
    ),
    **dict.fromkeys(
        [("method_is_replaced", each) for each in ("graphs", "details", "reasons")],
        "a replaced method compiles again here; torch does not guard the methods of a class and gives a wrong result",
    ),
    **dict.fromkeys(
        [("parameters_are_replaced_while_running", each) for each in ("graphs", "details", "reasons")],
        "torch breaks where a module's attribute is read while one of it is changed; here the change is simply known",
    ),
    **dict.fromkeys(
        [("dataclass_with_inheritance_and_post_init", each) for each in ("graphs", "details")],
        "torch leaves == of two symbolic numbers to the graph as a symbolic bool; here it is decided while tracing",
    ),
    (
        "object_is_made_and_returned",
        "details",
    ): "torch returns a value that an attribute of a new object only had for a while",
    (
        "slots_are_unset_and_deleted",
        "details",
    ): "the outputs of the graph come in another order: torch stores attributes first",
    **dict.fromkeys(
        [("hook_is_added_between_calls", each) for each in ("graphs", "details", "reasons")],
        "a hook that comes later is seen here; torch ignores it (skip_nnmodule_hook_guards) and gives a wrong result",
    ),
    (
        "attribute_appears_between_calls",
        "reasons",
    ): "of an entry's two failing guards torch names the one that its tree meets first",
    ("set_argument_changes", "reasons"): "torch guards membership in a set before its length",
    ("forward_hook", "details"): "torch looks at the arguments of a call with stars before the callee does",
    **dict.fromkeys(
        [("exceptions_of_python_are_caught", each) for each in ("graphs", "details")],
        "torch skips one of the caught exceptions' branches; all four additions are traced here, as eager runs them",
    ),
    **dict.fromkeys(
        [("match_on_structure", each) for each in ("graphs", "details")],
        "torch keeps an input of a graph that has no operator; here it is dropped",
    ),
    (
        "assert_on_python_values",
        "reasons",
    ): "an assertion that fails is told as the exception it raises, not as torch's symbolic-shape assertion",
    (
        "exception_leaves_the_function",
        "reasons",
    ): "torch cannot build the message of the exception and says so; here the exception itself is told",
    ("yield_from_and_send", "details"): "torch loses the value that yield from returns, and with it the output",
    ("collections_of_the_library", "details"): "outputs of the graph stand in another order",
    (
        "input_changes_its_shape_in_place",
        "graphs",
    ): "torch leaves the change of an input's shape to Python (a delayed break); here it is part of the graph",
    ("input_changes_its_shape_in_place", "details"): "as its graphs",
    ("input_changes_its_shape_in_place", "reasons"): "as its graphs",
    ("numbers_in_containers", "details"): "an item that is a bound of a slice is looked at before what is sliced",
    ("views_as_inputs", "details"): "symbols of the sizes of a view's base have other names",
    ("break_in_autocast", "details"): "autocast is entered again with the cache setting it had, not with None",
    (
        "list_changes_under_its_iterator",
        "details",
    ): "a list's iterator stays one here, as its list changes; torch carries the rest as a tuple",
    ("list_changes_under_its_iterator", "reasons"): "as its details: an iterator of a list breaks the resumed graph",
    **{
        (name, "reasons"): "a coroutine is not compiled itself, and that is the reason; torch goes into it, and fails"
        for name in (
            "a_coroutine_is_compiled",
            "an_asynchronous_generator_is_compiled",
            "an_asynchronous_context_around",
            "asynchronous_for_over_an_object",
            "a_coroutine_raises",
            "a_method_is_a_coroutine",
        )
    },
    **_known(
        "a_coroutine_is_made_and_returned",
        "graphs details reasons",
        "torch runs a coroutine where it is made, with a wrong result",
    ),
    ("an_exception_group_is_caught_whole", "reasons"): "a method of an exception group breaks in both, in other words",
    # -- everyday programs ---------------------------------------------------------------
    **_known(
        "settings_are_replaced",
        "graphs details",
        "torch leaves `is not` of two symbolic numbers in the graph; here it is decided while tracing",
    ),
    ("settings_are_replaced", "reasons"): "torch guards the truth of that operator",
    **_known("flags_decide", "graphs details", "torch keeps a graph that has no operator"),
    **_known(
        "vectors_of_tensors", "graphs details reasons", "torch breaks at abs() of an object; here its __abs__ is traced"
    ),
    ("abstract_class_is_not_made", "reasons"): "torch breaks where an abstract class is called; here it raises",
    ("objects_are_sorted", "reasons"): "torch breaks at >= of functools.total_ordering; here it is traced",
    **_known(
        "exit_stack_unwinds",
        "graphs details reasons",
        "torch breaks at a step of ExitStack's implementation; here it is traced whole",
    ),
    **_known(
        "suppressing_and_closing", "graphs details reasons", "torch skips the frame where contextlib.suppress is left"
    ),
    **_known("counting_and_grouping", "graphs details reasons", "torch skips the frame at a method of Counter"),
    **_known(
        "statistics_of_numbers", "details reasons", "torch breaks at itertools.groupby with a key; here it is traced"
    ),
    **_known(
        "numbers_in_texts", "graphs details reasons", "torch breaks at `%` of a text and a number; here it is traced"
    ),
    ("texts_are_taken_apart", "reasons"): "torch breaks at str.maketrans; here it is computed",
    **_known(
        "templates_and_paragraphs", "graphs details reasons", "torch skips the frame where it cannot rebuild a method"
    ),
    **_known(
        "simple_namespaces", "graphs details", "torch skips the frame where an attribute of a SimpleNamespace is set"
    ),
    ("simple_namespace", "reasons"): "torch breaks where an attribute of a SimpleNamespace is set",
    **_known(
        "simple_namespace_arg", "graphs details reasons", "torch breaks where an attribute of a SimpleNamespace is set"
    ),
    **_known("mapping_proxies", "graphs details", "torch lets a window on a dict be changed, with a wrong result"),
    ("arguments_are_checked_by_signature", "reasons"): "torch breaks at the exception that the decorator raises",
    ("dispatch_on_the_kind_of_a_value", "details"): "inputs come in the order in which they are looked at",
    ("dispatching_methods", "reasons"): "singledispatchmethod is traced here; torch breaks",
    **_known("abstract_class_is_not_made", "graphs details", "the TypeError is traced here; torch breaks"),
    **_known("single_dispatch", "graphs details reasons", "singledispatch is traced here; torch breaks"),
    ("slices_with_bounds_from_arguments", "details"): "torch makes inputs of numbers later than of tensors",
    ("adapter_passes_attributes_on", "details"): "torch addresses submodules through the dict, which names the inputs",
    ("copies_shallow_and_deep", "reasons"): "copy.deepcopy breaks in both, torch once more around it",
    ("assignment_expressions", "reasons"): "torch breaks at a cell that is not filled yet",
    **_known(
        "members_that_can_be_called", "graphs details", "torch makes a symbol of the value of a member of an enum"
    ),
    # -- code bases ----------------------------------------------------------------------
    **_known(
        "patterns_of_axes", "graphs details reasons", "torch breaks at a comprehension over zip(strict=True) in a call"
    ),
    **_known(
        "pattern_that_does_not_fit",
        "graphs details reasons",
        "torch skips the frame where a called function raises what its caller catches, after zip(strict=True)",
    ),
    **_known("versions_decide", "graphs details reasons", "torch breaks at >= of a data class; here it is traced"),
    ("keyword_only_and_slots_data_class", "reasons"): "repr of a symbolic number breaks in both, in other words",
    **_known(
        "decorator_class_with_state",
        "details reasons",
        "torch addresses a class attribute through the dict of the class that holds it; here as type(child).k",
    ),
    **_known(
        "metaclass_with_call", "graphs details reasons", "torch skips the frame where a metaclass has its own __call__"
    ),
    ("attributes_by_dict_proxy", "reasons"): "torch breaks once more at a method of a dict's subclass",
    **{
        (name, "details"): "torch addresses submodules through the dict, which names the inputs"
        for name in ("wrapper_that_forwards_everything", "state_of_a_recurrent_cell")
    },
    **{
        (name, "details"): "inputs come in the order in which they are looked at"
        for name in ("experts_in_a_module_dict", "hooks_collect_features", "exponential_average_of_parameters")
    },
    (
        "hooks_collect_features",
        "reasons",
    ): "a dict that is changed is guarded by its length here, in torch by its truth",
    (
        "spectral_norm_in_training",
        "details",
    ): "what an operator wrote to out= is the tensor itself here; torch takes the operator's result",
    **_known(
        "attention_with_a_cache", "graphs details reasons", "torch fails at a symbolic is_causal; here it is decided"
    ),
    **_known(
        "rotary_embedding_with_buffers",
        "graphs details reasons",
        "torch keeps 0 + n as an operator; a dict that is changed is guarded by all its keys here",
    ),
    **{
        (name, "reasons"): "torch tells of the break that it meets before it starts over; here of the one where it ends"
        for name in ("gradients_by_autograd_grad", "gradient_penalty")
    },
    (
        "several_breaks_in_contexts_of_several_depths",
        "details",
    ): "autocast is entered again with the cache setting it had, not with None",
    **{
        (name, "details"): "inputs come in the order in which they are looked at"
        for name in ("functional_call_with_stacked_parameters", "gradients_of_a_loss_with_has_aux")
    },
    **_known(
        "sparse_matrix_times_dense",
        "graphs details reasons",
        "torch skips the frame at a sparse product; here what comes after it is compiled",
    ),
    ("coroutine_like_generators", "details"): "torch forgets what a generator changed after an exception",
    (
        "paths_json_and_regular_expressions",
        "reasons",
    ): "json.loads breaks in both, at another step of its implementation",
    ("context_variables_and_thread_state", "reasons"): "methods of a context variable break in both, in other words",
    ("pickled_and_copied_configurations", "reasons"): "torch breaks at copy.copy of a dict; here it is traced",
    # -- special cases of Python's own types -------------------------------------------------
    **_known(
        "named_tuple_with_its_own_new",
        "graphs details reasons",
        "torch skips the frame where a call has the wrong arguments; here its TypeError is traced",
    ),
    **_known(
        "objects_with_their_own_hash",
        "graphs details reasons",
        "torch breaks where an object with a __hash__ of its own is a member of a tuple that is a key",
    ),
    **_known(
        "keys_with_their_own_hash_as_arguments",
        "details reasons",
        "torch takes an equal key for another one, and gives a wrong result; here __eq__ is traced",
    ),
    (
        "data_classes_as_keys",
        "reasons",
    ): "torch guards that a key equals the one it met; here what __hash__ and __eq__ read of it",
    (
        "key_of_a_tuple_of_arguments",
        "reasons",
    ): "a dict that is changed is guarded by all its keys here; torch guards the one that was looked up",
    **_known(
        "value_of_a_generator_that_ends", "graphs details reasons", "torch skips the frame at yield from in a return"
    ),
    **_known(
        "value_of_an_iterator_that_ends",
        "graphs details reasons",
        "torch does not trace an iterator of a user's class whose StopIteration carries a value",
    ),
    ("more_cells_than_locals", "reasons"): "torch breaks at a cell that is not filled yet",
    **_known(
        "str_format_field_by_field",
        "graphs details",
        "torch lets the exception of a wrong field out of the compiler",
    ),
    ("slices_of_constants_by_symbols", "reasons"): "torch breaks where a symbol indexes bytes; here it is specialised",
    ("bytes_and_what_equals_them", "reasons"): "torch compares a bytearray while it traces, unguarded; here it breaks",
    **_known(
        "property_that_raises_attribute_error",
        "graphs details reasons",
        "torch does not ask __getattr__ where a property raises AttributeError",
    ),
    **_known("typing_at_run_time", "details reasons", "torch breaks at NewType and TypedDict; here they are traced"),
    ("locals_of_a_function", "reasons"): "torch breaks at dir() without arguments; here it is traced",
    ("function_under_a_cache_outlives_a_break", "reasons"): "torch breaks where a cache is created; here it is traced",
    ("exception_holds_a_tensor", "details"): "inputs come in the order in which they are looked at",
    # -- calls, flow, text ---------------------------------------------------------------
    **_known(
        "default_of_an_inner_function_is_early", "graphs details", "torch fails on __defaults__ of a traced function"
    ),
    ("closure_of_an_argument_is_changed", "details"): "changed cells come in the order of their first change, not last",
    **_known("deleted_local_and_cell", "graphs details reasons", "torch does not trace `del` of a variable in a cell"),
    **_known(
        "unbound_local_is_caught",
        "graphs details reasons",
        "torch breaks at an unbound local; here its exception is traced",
    ),
    **_known(
        "exception_name_is_deleted",
        "graphs details reasons",
        "torch breaks at an unbound local; here its exception is traced",
    ),
    **_known(
        "cached_functions_of_every_kind",
        "graphs details reasons",
        "a cached function with side effects breaks here; torch traces it, and repeats the effects",
    ),
    **_known(
        "cached_function_changes_an_older_object_again",
        "graphs details reasons",
        "a cached function with side effects breaks here; torch traces it, and repeats the effects",
    ),
    **_known(
        "fromkeys_through_super_and_instances",
        "details reasons",
        "`super().fromkeys` is traced here; torch breaks, and takes dict's own __setitem__ for that of a subclass",
    ),
    (
        "partial_methods_and_partials_of_partials",
        "reasons",
    ): "partialmethod breaks in both, at another step of its implementation",
    (
        "builtins_as_values",
        "reasons",
    ): "torch breaks at a builtin that is called with a wrong number of arguments; here it is traced",
    **_known(
        "exceptions_of_operations_are_caught",
        "graphs details reasons",
        "torch breaks at an unknown global; here its NameError is traced",
    ),
    **_known(
        "stop_iteration_carries_a_value",
        "graphs details reasons",
        "torch skips the frame where an iterator of a user's class stops with a value; here the value is traced",
    ),
    **_known(
        "generator_is_returned",
        "graphs details",
        "torch asks a generator that outlives the graph for all that it yields, too early if what it reads changes",
    ),
    **_known(
        "break_in_a_generator",
        "graphs details",
        "torch asks the generator for all that it yields, meets its break again and skips the frame",
    ),
    **_known(
        "iterators_as_arguments",
        "graphs details reasons",
        "an iterator that is only passed on to next() is not guarded here, so that one entry serves all kinds",
    ),
    ("iterators_of_functions_as_arguments", "reasons"): "torch names the missing slot of CPython's type",
    **_known(
        "text_of_a_tensor_in_an_error",
        "graphs details reasons",
        "torch fails to build the text of a symbolic number and compiles up to there",
    ),
    **_known(
        "text_by_str_format_and_percent_of_a_tensor",
        "graphs details reasons",
        "torch breaks at `%` of a text and a tensor; here the text is made after the graph",
    ),
    (
        "operator_error_is_caught",
        "reasons",
    ): "what the operator raises is left to Python, handler and all; torch rejects",
    **_known("index_error_of_a_tensor_is_caught", "graphs details", "torch lets the exception out of the compiler"),
    **_known("dimension_error_is_caught", "graphs details", "torch lets the exception out of the compiler"),
    (
        "text_of_a_number_in_a_tensor",
        "reasons",
    ): "torch breaks at repr of a tensor; here the text is made after the graph",
    **_known(
        "text_of_a_tensor_that_changes",
        "graphs details reasons",
        "the text of a tensor that changes afterwards is left to Python; torch compiles it, with a wrong result",
    ),
    # -- tensors -------------------------------------------------------------------------
    **_known(
        "integer_operators_reflected",
        "graphs details reasons",
        "torch breaks at pow() of a tensor; here it is the operator",
    ),
    **_known(
        "abs_round_and_their_like",
        "graphs details reasons",
        "torch breaks at pow() of a tensor; here it is the operator",
    ),
    ("facts_by_method", "reasons"): "torch breaks at a method whose answer is no tensor; here it is answered",
    **_known("out_arguments", "details reasons", "torch has a kind of break of its own for a list of out="),
    **_known("argument_is_resized_or_set", "graphs details reasons", "torch breaks at set_, too; here it is traced"),
    **_known(
        "cells_are_shared_and_then_not",
        "graphs details reasons",
        "torch does not guard that two functions share a cell",
    ),
    ("module_attribute_is_the_global", "details"): "torch reads the old value of the global",
    ("global_is_the_module_attribute", "details"): "torch reads the old value of the module's attribute",
    ("enum_member_attribute_changes", "details"): "the inputs come in the order in which they are looked at",
    **_known(
        "numpy_function_of_a_tensor", "graphs details", "NumPy gives a tensor for a tensor; torch goes on with an array"
    ),
    **_known(
        "median_is_left_to_numpy", "graphs details reasons", "torch._numpy's median has a dim too many: left to NumPy"
    ),
    **_known(
        "operator_module_on_tensors",
        "graphs details reasons",
        "torch breaks at operator.truth of a list; here it is answered",
    ),
    (
        "getters_of_the_operator_module",
        "reasons",
    ): "torch tells of three unsupported method calls, and compiles the same one graph all the same",
    **_known(
        "tensor_in_a_list", "graphs details", "torch turns `tensor in list` into an operator, with a wrong result"
    ),
    (
        "number_functions_that_tensors_lack",
        "reasons",
    ): "round() of a tensor breaks as a builtin here, as a method in torch",
    **_known(
        "divmod_of_a_tensor",
        "graphs details reasons",
        "torch takes divmod of a tensor for an exception and skips the frame",
    ),
    ("index_out_of_range_on_a_tensor", "reasons"): "torch lets the exception out of the compiler, without a break",
    # -- bodies --------------------------------------------------------------------------
    **_known(
        "function_that_reads_globals",
        "graphs details",
        "torch reads a symbolic float inside of the body; here it is read once, outside",
    ),
    **_known(
        "checkpoint_with_closure_and_keywords",
        "graphs details",
        "an input that a body returns is itself afterwards; torch takes it from the operator",
    ),
    **_known("checkpoint_sequential", "graphs details reasons", "torch does not trace checkpoint_sequential"),
    ("wrap_and_its_closures", "details"): "inputs come in the order in which they are looked at",
    **{
        (name, "details"): "torch returns the size of an input from the region, too"
        for name in ("region_with_one_call", "regions_that_are_equal_and_others")
    },
    ("cond_with_closures", "details"): "the shared inputs are sorted by name; torch names nodes after variables",
    **{
        (name, "details"): "inputs come in the order in which they are looked at; torch looks at arguments first"
        for name in (
            "vmap_nested",
            "per_sample_gradients",
            "ensemble_of_modules",
            "grad_with_a_closure",
            "tree_map_with_several_trees",
        )
    },
    ("vmap_breaks", "reasons"): "torch tells of the same break once more",
    ("fork_rng", "reasons"): "torch.random.fork_rng breaks in both, at another step of its implementation",
    # -- optimisers ----------------------------------------------------------------------
    **{
        (name, aspect): "parameters and state of an optimiser are inputs here; torch keeps them as attributes"
        for name in (
            "sgd_step",
            "sgd_with_momentum",
            "adam_step",
            "adamw_step",
            "adam_capturable_foreach_off",
            "rmsprop_step",
            "adagrad_step",
            "optimiser_step_compiled_directly",
            "training_step_without_backward",
            "learning_rate_scheduler",
        )
        for aspect in ("graphs", "details")
    },
    **{
        (name, "results"): "as torch, the compiled step takes the capturable formula, which rounds differently"
        for name in ("adam_step", "adamw_step", "adam_capturable_foreach_off")
    },
    **{
        (name, "reasons"): "the same break or guard in other words"
        for name in (
            "sgd_with_momentum",
            "optimiser_step_compiled_directly",
            "zero_grad_inside",
            "training_step_without_backward",
            "a_scheduler_that_counts_its_steps",
            "float32_matmul_precision",
            "saved_tensors_hooks_inside",
            "anomaly_mode",
            "default_device_outside",
        )
    },
    ("get_default_device_inside", "reasons"): "torch breaks at a function of torch that returns no tensor",
    **_known("mode_counts_inside", "graphs details", "torch does not ask modes about attributes"),
    **{
        (name, "reasons"): "torch guards the class of a subclass apart; here the tensor's guard does"
        for name in ("two_tensor_shape_and_type", "wrapper_or_plain")
    },
    ("scaled_argument", "reasons"): "torch gives what a wrapper says beside its tensors no name of its own",
    **_known(
        "wrapper_dispatch_mode_around", "graphs details", "torch never tries again what was called in a mode once"
    ),
    ("not_traceable_wrapper", "reasons"): "an operator of a wrapper that is not traced breaks in both, in other words",
    **_known("wrapper_own_property", "graphs details", "torch takes what a property computes for an input"),
    **_known("counter_in_class", "graphs details reasons", "torch breaks where a class is given an attribute"),
    (
        "modules_are_made_inside",
        "reasons",
    ): "torch skips the frame of a module's __init__ where super() is called; here it goes on after it",
    ("class_of_an_argument", "details"): "inputs come in the order in which they are looked at",
    ("lazy_linear", "details"): "inputs come in the order in which they are looked at",
    ("lazy_conv_and_norm", "details"): "inputs come in the order in which they are looked at",
    ("float32_matmul_precision", "details"): "torch breaks at a function of torch that returns no tensor",
    ("exponential_moving_average", "details"): "inputs come in the order in which they are looked at",
    ("old_weight_norm", "details"): "inputs come in the order in which they are looked at",
}

_AGREE_ON: dict[str, tuple[tuple[int, int], ...]] = {
    "dataclass_with_inheritance_and_post_init": ((3, 13),),
    "more_cells_than_locals": ((3, 12), (3, 13)),
    "assignment_expressions": ((3, 12), (3, 13)),
    "counting_and_grouping": ((3, 12), (3, 13)),
    "experts_in_a_module_dict": ((3, 12), (3, 13)),
    "modules_are_made_inside": ((3, 12), (3, 13)),
    "simple_namespace": ((3, 13),),
    "simple_namespace_arg": ((3, 13),),
}
"""Versions of Python in which a program of the table does not disagree."""

_INLINED_COMPREHENSIONS: dict[tuple[str, str], str] = {
    **_known("generator_throws", "graphs details", "torch fails with an IndexError of its own from 3.12 on"),
    ("iterators_by_hand", "details"): "what next() gives is looked at once it is given, torch waits until it is used",
    ("break_in_two_comprehensions", "details"): "torch stores the list before the frame goes on, here the frame does",
    (
        "break_in_a_comprehension_in_a_loop",
        "reasons",
    ): "the iterator of a range is carried as one of a tuple here, and guarded as such",
    **_known(
        "break_in_a_comprehension_of_shared_names",
        "graphs details",
        "torch skips the frame where a variable of a comprehension is a cell",
    ),
    **_known(
        "break_in_a_comprehension_that_binds",
        "graphs details",
        "a comprehension that binds a variable of the function does not stand alone here: the frame is skipped",
    ),
}
_SINCE_3_12 = {
    **_INLINED_COMPREHENSIONS,
    (
        "modules_are_made_inside",
        "details",
    ): "the list that waits at the break is on the stack here, in torch in a variable",
    ("coroutine_like_generators", "graphs"): "torch forgets what a generator changed after an exception",
    ("counting_and_grouping", "reasons"): "torch breaks at methods of Counter; here they are traced",
}
_ONLY_ON: dict[tuple[int, int], dict[tuple[str, str], str]] = {
    (3, 11): {("break_in_a_comprehension_that_binds", "reasons"): "torch meets the unbound cell first"},
    (3, 12): _SINCE_3_12,
    (3, 13): {
        **_SINCE_3_12,
        ("equality_of_dates", "reasons"): "making a date breaks in both, in other words from 3.13 on",
        ("simple_namespaces", "reasons"): "an attribute of a SimpleNamespace is set here, and a later step breaks",
        (
            "threading_",
            "reasons",
        ): "a lock's class is made in another way from 3.13 on: torch calls it a method, here it is a function",
    },
}

_WITH_TORCH: dict[tuple[int, int], dict[tuple[str, str], str]] = {
    (2, 15): {
        (
            "gradients_for_each_sample",
            "results",
        ): "eager mode rejects the program from torch 2.15 on; here the compiler's error names the operator, as before",
    }
}
"""Disagreements of programs whose results, or errors, change in a later version of torch."""

KNOWN_HERE: dict[tuple[str, str], str] = {
    **{key: reason for key, reason in KNOWN.items() if sys.version_info[:2] not in _AGREE_ON.get(key[0], ())},
    **_ONLY_ON[sys.version_info[:2]],
    **_WITH_TORCH.get(versions.torch_version(), {}),
}
